"""Rules for requests, by API."""
