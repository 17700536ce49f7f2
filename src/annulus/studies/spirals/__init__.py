"""Two spirals seen through noise: which noise leaves a view that tells them apart."""
