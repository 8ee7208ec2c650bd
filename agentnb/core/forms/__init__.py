"""Forms: the fields for a JSON Schema of objects, the value that typed texts make, the forms of questions."""
