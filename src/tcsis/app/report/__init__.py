"""Reports: one HTML page, from result files alone."""

from tcsis.app.report.page import write_report

__all__ = ["write_report"]
