"""Recipes: what a user demands of parts of a model, as ordered rules."""

from zeropoint.solve.recipe.apply import apply_recipe
from zeropoint.solve.recipe.load import load_recipe, recipe_of
from zeropoint.solve.recipe.rules import Recipe, RecipeError, Rule, Subgraph

__all__ = ["Recipe", "RecipeError", "Rule", "Subgraph", "apply_recipe", "load_recipe", "recipe_of"]
