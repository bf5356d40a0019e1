"""Recipes: ordered rules that state a user's requirements for parts of a model."""

from zeropoint.recipe.apply import apply_recipe
from zeropoint.recipe.load import load_recipe, recipe_of
from zeropoint.recipe.rules import RecipeError, RecipeRules, Rule, Subgraph

__all__ = ["RecipeError", "RecipeRules", "Rule", "Subgraph", "apply_recipe", "load_recipe", "recipe_of"]
