"""Driving: six cameras and a LiDAR at the same moment, and boxes in 3-D."""
