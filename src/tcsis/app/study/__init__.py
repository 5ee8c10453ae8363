"""The study of the paper, with exact truth: every method on every setting, kept cell by cell.

plan       settings, methods, tasks and budgets, as frozen values
ways       how the methods are run, a class for every kind of them
programme  the methods and settings of the paper's study
cells      what is kept of one run
table      rows over the seeds, as markdown, CSV and for the terminal
plots      the figures
output     the folder of a study, with a page that says how it was made
"""
