"""What command-line programs share: arguments, files in and out, errors as one sentence."""
