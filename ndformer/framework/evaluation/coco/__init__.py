"""COCO's box metric in numpy, its files, tables and plots."""
