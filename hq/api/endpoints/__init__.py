"""The API's endpoints, a module for each thing people ask about. Each asks the store through `Sight` alone."""
