"""Video: reading frames exactly, augmenting clips, tubelets."""
