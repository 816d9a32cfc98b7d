"""From a trained model to an entry of the zoo, with scores and card."""
