"""Samples on disk to batches: datasets, transforms, samplers, class folders, mixtures, stand-ins."""

from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset, Sample, Transform
from ndformer.framework.errors import DataError

__all__ = ["Batches", "DataError", "Dataset", "Sample", "Transform", "collate"]
