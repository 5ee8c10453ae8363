"""Reports: one HTML page, and pictures for papers, from result files alone."""

from tcsis.app.report.page import write_report
from tcsis.app.report.pictures import write_pictures

__all__ = ["write_pictures", "write_report"]
