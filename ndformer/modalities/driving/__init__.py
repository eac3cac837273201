"""Driving: six cameras and a LiDAR of the same moment, and boxes in space."""
