"""Two spirals seen through noise: the effect of the noise on whether views separate them."""
