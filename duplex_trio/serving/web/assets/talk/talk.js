/** The page where people talk with the model. */
