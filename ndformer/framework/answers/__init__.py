"""What heads say, one file for each kind of answer."""
