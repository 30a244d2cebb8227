"""What the Kafka source and sink share: settings, the schema registry, and the brokers' admin interface."""
