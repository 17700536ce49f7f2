"""Which columns of a memory stand against the positive, and which with it."""
