"""What a voyage will send, when it is there, what it costs and what thins: told before she sails, from her own settings."""
