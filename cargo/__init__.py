"""The pure rules of containers at sea: readings, bookings, excursions and the muster, without I/O."""
