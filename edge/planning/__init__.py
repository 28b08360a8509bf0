"""What a voyage will send, when it is there, what it costs and what thins: computed before the ship sails, from its own settings."""
