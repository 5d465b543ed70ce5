"""Scores texts with classifiers that need no encoder. A larger score is more of a violation.

--input is a JSON object: texts; train, a list of objects with text and violation, or null; and classifiers, the names of those
to run, by default all. --out gets the scores of the texts by the name of the classifier.
"""

import argparse
import importlib.resources
import json
import re

from better_profanity import profanity
from profanity_check import predict_prob
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


def lexicon(texts):
    """The number of words that are in the list of better-profanity."""
    listed = importlib.resources.files("better_profanity").joinpath("profanity_wordlist.txt").read_text(encoding="utf-8")
    words = set(listed.split("\n"))
    return [sum(word in words for word in re.findall(r"[\w'*@$-]+", text.lower())) for text in texts]


def bigrams(texts, train):
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    model.fit([row["text"] for row in train], [row["violation"] for row in train])
    return model.decision_function(texts).tolist()


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--input", required=True)
    flags.add_argument("--out", required=True)
    args = flags.parse_args()
    with open(args.input, encoding="utf-8") as file:
        work = json.load(file)
    texts = work["texts"]
    vader = SentimentIntensityAnalyzer()
    profanity.load_censor_words()
    classifiers = {
        "alt-profanity-check": lambda: predict_prob(texts).tolist(),
        "better-profanity": lambda: [float(profanity.contains_profanity(text)) for text in texts],
        "VADER": lambda: [-vader.polarity_scores(text)["compound"] for text in texts],
        "lexicon": lambda: lexicon(texts),
    }
    if work.get("train"):
        classifiers["bigrams"] = lambda: bigrams(texts, work["train"])
    scores = {name: classifiers[name]() for name in work.get("classifiers") or classifiers}
    with open(args.out, "w", encoding="utf-8") as out:
        json.dump(scores, out)


if __name__ == "__main__":
    main()
