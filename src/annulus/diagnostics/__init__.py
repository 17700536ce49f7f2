"""What snapshots say of embeddings and negatives."""
