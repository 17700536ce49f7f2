"""A GPU on the first try: `annulus check-gpu` says what of the library is fast, slow or wrong there."""
