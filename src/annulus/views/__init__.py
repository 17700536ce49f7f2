"""Which views: augmentations of whole batches."""
