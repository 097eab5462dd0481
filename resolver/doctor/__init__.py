"""Looks at everything around a resolver, without a JVM, and says what to do about what it finds."""
