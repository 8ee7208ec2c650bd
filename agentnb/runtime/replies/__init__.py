"""Replies of models: streamed, bounded, normalized, and the conversation compacted for them."""
