"""`annulus check-gpu`: checks the library's speed and correctness on this machine's GPU."""
