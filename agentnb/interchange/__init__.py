"""Traces of other products: found, read, imported, detected over; and written for them."""
