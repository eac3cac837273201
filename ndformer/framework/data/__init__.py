"""Datasets, transforms, samplers, class folders, mixtures and stand-ins: from samples on disk to batches."""

from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset, Sample, Transform
from ndformer.framework.errors import DataError

__all__ = ["Batches", "DataError", "Dataset", "Sample", "Transform", "collate"]
