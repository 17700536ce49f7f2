"""Two spirals seen through noise: the effect of the noise on their separation."""
