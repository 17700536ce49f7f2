"""Devices, processes, threads, random generators, kernels, and checks of numbers on a GPU."""
