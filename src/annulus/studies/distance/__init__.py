"""Two patches of an image by their distance: shared information, and transfer to another image set."""
