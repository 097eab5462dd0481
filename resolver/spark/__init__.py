"""The Spark session and the common needs of all queries; this package imports no query."""
