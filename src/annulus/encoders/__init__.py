"""Networks, and the features that frozen networks give."""
