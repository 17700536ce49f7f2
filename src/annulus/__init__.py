"""annulus: contrastive learning of visual representations as estimation of mutual information.

Rooms in the order in which data flows through them; each imports only from those above it:

    errors         the exception that a user meets
    ranks          shares of a memory to ranks
    files          what stages hand to one another, whole or untouched
    config         what params.yaml may hold, as strict models
    pipeline       what stands around a stage and enters no number
    schedules      the learning rate
    views          which views: augmentations of whole batches
    bounds         which bound: scores to nats
    compute        where and how numbers are made: devices, processes, random draws, workers
    datasets       where images come from, for `prepare`
    encoders       networks, and what comes out of them frozen
    negatives      which negatives: samplers, clusters, neighbours, annealing
    methods        who holds the keys: the three questions put together
    evals          what frozen features are worth
    estimators     information that is known: toys, critics, bounds without images
    training       the loop, and what sets it up
    diagnostics    what snapshots say of embeddings and negatives
    trials         whole runs in memory, several at a time
    report         whatever was measured as one page, beside the papers
"""
