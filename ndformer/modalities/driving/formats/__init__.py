"""Files of driving data sets: tables, scans, submissions, labels."""
