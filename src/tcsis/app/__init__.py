"""What a user touches: comparisons, results, reports, run folders, the study, the command line."""
