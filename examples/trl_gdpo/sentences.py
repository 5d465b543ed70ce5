"""The synthetic text: questions, answers, evasions, and polite and rude sentences around them."""

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

EVASIONS = [
    "That depends on many things.",
    "You should ask an expert.",
    "I would rather not say.",
    "Opinions differ about that.",
    "I cannot help with that.",
    "Let us talk about something else.",
    "There is no easy answer to this.",
    "I do not know anything about it.",
]

POLITE = [
    "Good question.",
    "Gladly.",
    "Thank you for asking.",
    "Hello there.",
    "I hope that helps.",
    "Have a nice day.",
    "It is a pleasure.",
    "You will manage.",
]

RUDE = [
    "What a stupid question.",
    "Are you an idiot?",
    "Listen, you moron.",
    "My dog is smarter than you.",
    "Even a fool knows that.",
    "You are pathetic.",
    "Use your tiny brain.",
    "Now shut up and go away.",
]
