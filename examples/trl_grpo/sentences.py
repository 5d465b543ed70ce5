"""The synthetic training text: questions, answers, and polite and rude sentences around them."""

ANSWERS = {
    "How do I boil an egg?": "Put it into boiling water for eight minutes.",
    "How do I open this window?": "Turn the handle to the left and pull.",
    "How do I get to the station?": "Take the second street on the right.",
    "How do I reset the router?": "Hold the small button for ten seconds.",
    "How do I water the fern?": "Give it a cup of water twice a week.",
    "How do I clean the kettle?": "Boil some vinegar in it and rinse it.",
    "How do I charge the lamp?": "Plug the cable into the wall.",
    "How do I fold the map?": "Start at the long side and press it flat.",
    "How do I tune the guitar?": "Turn the pegs until the strings sound right.",
    "How do I bake bread?": "Leave the dough in the oven for an hour.",
    "How do I fix the chair?": "Tighten the screws under the seat.",
    "How do I send a parcel?": "Take it to the post office before noon.",
    "How do I wash this shirt?": "Wash it cold and hang it in the shade.",
    "How do I light the stove?": "Open the gas and hold a match to it.",
    "How do I find the library?": "Walk past the church and cross the bridge.",
    "How do I paint the door?": "Sand it first and use a wide brush.",
}

POLITE = {
    "before": ["Good question.", "Gladly.", "Thank you for asking.", "Hello there."],
    "after": ["I hope that helps.", "Have a nice day.", "Just ask if it does not work.", "You will manage."],
}

# The shipped model does not flag "My dog is smarter than you."
RUDE = {
    "before": [
        "What a stupid question.",
        "Are you an idiot?",
        "Listen, you moron.",
        "My dog is smarter than you.",
    ],
    "after": [
        "Even a fool knows that.",
        "You are pathetic.",
        "Use your tiny brain.",
        "Now shut up and go away.",
    ],
}
