"""Steps of workflows, task files and orchestrators: attempts, retries, the journal, nested runs."""
