"""Mutual information where it is known, so that bounds can be held against the truth.

In the order in which they need one another:

    toys           pairs of variables with their information and density ratio
    critics        what scores every x with every y
    values         bounds as estimates in nats
    binary         the binary example in closed form
    fitting        several critics trained as one
    conditional    NCE and CNCE by the share that negatives come from, many runs together
"""
