"""The pages: the fleet map, timelines, alerts and the customer portal, read through the API."""
