"""Small worlds in which one knows what two views share.

params     their settings
spirals    points on two spirals, seen through noise
"""
