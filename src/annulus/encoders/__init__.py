"""Networks, and what comes out of them frozen."""
