"""Where numbers are made: devices, processes, threads, random generators, kernels, checks on a GPU."""
