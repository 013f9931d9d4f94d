//! Ports: the nouns and traits of a cloud that makes VMs from a recipe.
