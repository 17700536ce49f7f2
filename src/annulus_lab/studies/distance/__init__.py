"""Two patches of an image at several distances: shared information, and transfer to another image set."""
