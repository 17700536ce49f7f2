"""A student learns from its teacher: their embeddings as two views, or the teacher's softened answers."""
