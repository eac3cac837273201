"""Answers: the predictions of heads for one sample, one file per kind."""
