"""Problems as other tools have them, to targets."""
