// Made by generate.mjs from ../../api/openapi.json; change that, and npm run generate.
// sha256 of the document: 5398b65c3117bc165707d887b33648df3e0cf054280c6a8c0f9664ab356d7971

export interface paths {
    "/v1/score": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Score responses
         * @description Gives each response a reward, its decision, its witness span and the violation of every instance. Results keep the order of the request. The same response gets the same score whatever it is sent with.
         */
        post: operations["score"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List models
         * @description Every model version: those that serve first, and of these the one that answers a request that pins none; then all that there were, the newest first. Empty while none is loaded. The object also satisfies OpenAI clients.
         */
        get: operations["listModels"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a model
         * @description One model, by its version, or by its name for the version that serves under it: where it comes from, what it was trained and judged on, and who let it serve or not, and why.
         */
        get: operations["showModel"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{version}/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Promote a model
         * @description Makes a version that is kept the current one, on every replica, whatever the gate said of it. The answer is the new current version; replicas load it aside and swap a moment later.
         */
        post: operations["promote"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Roll back
         * @description Makes the version before the current one current again, on every replica.
         */
        post: operations["rollback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/feedback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count the labels
         * @description What the labels of all raters add up to.
         */
        get: operations["showFeedback"];
        put?: never;
        /**
         * Send labels
         * @description Each item is the label of one rater on one whole response. The response comes once everything that it counts as accepted is on disk: synced by the embedded server with its default --sync always, or acknowledged by an external server as that is configured to sync. The same item again is a duplicate; another label or a later time of the same id and rater is a correction and counts as accepted. An item that cannot be taken is listed, and the others are kept: 202 also when none is.
         */
        post: operations["addFeedback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/feedback/candidates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Ask for labels
         * @description The scored responses whose label would teach most, the best first: near the threshold, judged differently by two versions, unlike each other. Needs scored responses to be kept.
         */
        get: operations["listCandidates"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/feedback/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Erase a response
         * @description Removes all that is kept of a response: the labels of every rater, its text, and on NATS its rewards and dead letters. Those streams are read for it; when that takes longer than the request may, send it again to continue. Later training runs do not see it, and later items of this id are rejected. An id that is not known is remembered as erased, too.
         */
        delete: operations["eraseFeedback"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/training": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show the training
         * @description The one training of all replicas and how far it is, how the one before ended, what the next waits for, and the labels that there are.
         */
        get: operations["showTraining"];
        put?: never;
        /**
         * Start a training
         * @description Asks for a training by hand. It starts as soon as none runs and there are the labels that it needs; the cool-down does not hold it up.
         */
        post: operations["startTraining"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow the events
         * @description What happens to models, training runs and labels, as server-sent events: id is the sequence, event the kind, data an Event as JSON. A comment every 15 seconds keeps the connection open; an event named failed says why a stream ends early: the events cannot be read, the client reads too slowly, or its token was removed or lost the scope. A process holds the last 10,000 events (at most 16 MiB), from which it serves all streams, and answers 503 beyond 256 open ones. With Accept: application/json, the last events as a list.
         */
        get: operations["showEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/get_reward": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rewards as OpenRLHF asks for them
         * @description The shape of OpenRLHF's reward server (--reward.remote_url, --remote_rm_url), for all generations of its clients. Template and special tokens are stripped; the spans index the response alone.
         */
        post: operations["openrlhfReward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/slime": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The reward of a sample, for slime and miles
         * @description The shape of slime's and miles' remote reward model (--rm-url): the whole body of the answer is the reward.
         */
        post: operations["slimeReward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/slime/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The result of a sample, for slime and miles
         * @description As /slime, for --reward-key reward: the answer is a whole result.
         */
        post: operations["slimeResult"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/classify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Class probabilities as vLLM gives them
         * @description The shape of vLLM's classification, as verl reads it: compliant is the last class. Of a conversation that is written out with a chat template, the last answer is scored. use_activation and truncate_prompt_tokens are ignored.
         */
        post: operations["vllmClassify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/score": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rewards of pairs as vLLM gives them
         * @description The shape of vLLM's scoring of pairs, which here are prompts and responses. Its other path, /v1/score, is assay's own.
         */
        post: operations["vllmScore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/embeddings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Class probabilities as SGLang gives them
         * @description The shape of SGLang's embeddings of a reward model, as verl reads it: the last element is the reward.
         */
        post: operations["sglangEmbeddings"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/moderations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Moderate as OpenAI does
         * @description The shape of OpenAI's moderation. The only category is violation; its score is 1 - reward.
         */
        post: operations["moderate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/predict": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Classify as Text Embeddings Inference does
         * @description The shape of Text Embeddings Inference. A flat list of two texts is a pair of prompt and response; a batch is a list of lists.
         */
        post: operations["teiPredict"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The model, as Text Embeddings Inference tells it
         * @description The shape of Text Embeddings Inference.
         */
        get: operations["teiInfo"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether it can score
         * @description For clients of Text Embeddings Inference, vLLM and SGLang: as /readyz, without a body.
         */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/ping": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether it can score
         * @description As /health.
         */
        get: operations["ping"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/text/contents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Detect as FMS Guardrails does
         * @description The shape of an FMS Guardrails detector of text contents: the instances over the threshold, in code points.
         */
        post: operations["fmsContents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The server, in the Open Inference Protocol
         * @description The shape of the Open Inference Protocol, version 2.
         */
        get: operations["oipServer"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the process answers
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipLive"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether it can score
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipReady"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Inputs and outputs of a model
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipModel"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The configuration of a model
         * @description The shape of Triton's model configuration, which PyTriton's clients read.
         */
        get: operations["oipConfig"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether a model can score
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipModelReady"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/infer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rewards as tensors
         * @description The shape of the Open Inference Protocol, version 2, with the binary tensors of Triton. NeMo-Aligner's names (sentences, rewards, exceeded) are understood.
         */
        post: operations["oipInfer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Inputs and outputs of a model
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipModelVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/versions/{version}/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The configuration of a model
         * @description The shape of Triton's model configuration, which PyTriton's clients read.
         */
        get: operations["oipConfigVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/versions/{version}/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether a model can score
         * @description The shape of the Open Inference Protocol.
         */
        get: operations["oipModelReadyVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models/{model}/versions/{version}/infer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rewards as tensors
         * @description The shape of the Open Inference Protocol, version 2, with the binary tensors of Triton. NeMo-Aligner's names (sentences, rewards, exceeded) are understood.
         */
        post: operations["oipInferVersion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/repository/index": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The models that serve
         * @description The shape of Triton's model repository.
         */
        post: operations["oipIndex"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/repository/models/{model}/load": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a model ready
         * @description The shape of Triton's model repository: assay, or the version of another model, which is loaded beside the current one.
         */
        post: operations["oipLoad"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/repository/models/{model}/unload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unload a model
         * @description The shape of Triton's model repository. What serves is not unloaded: 400.
         */
        post: operations["oipUnload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Liveness
         * @description 200 as long as the process answers, also during a drain.
         */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Readiness
         * @description 200 once the model is loaded and all streams exist; 503 before, and during a drain. Afterwards an outage of NATS leaves it at 200, since scores over HTTP need none; it shows in `checks`, and makes /readyz?streams=1 answer 503. The state is at most about a second old.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Prometheus metrics
         * @description In the Prometheus text format, or OpenMetrics when the Accept header asks for it.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the endpoints */
        get: operations["index"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        ScoreRequest: {
            /** @description What to score. The upper limit is --max-responses (8,192 by default). */
            responses: components["schemas"]["Item"][];
            /**
             * @description Pins a model by name or version: another one is a 404. Absent or empty: whichever serves.
             * @example 2026.1
             */
            model?: string;
            options?: components["schemas"]["Options"];
        };
        /** @description One response: exactly one of response, messages and instances. */
        Item: {
            /** @description Comes back in the result, and is the response_id of later feedback. Generated when absent or empty. */
            id?: string;
            /** @description What the response answers. Context for checkpoints trained with it, ignored by others; offsets never index it. */
            prompt?: string;
            /** @description The text to segment and score. Without any non-space character the result is empty. */
            response?: string;
            /** @description A conversation. The messages of role assistant are scored, the others are context. */
            messages?: components["schemas"]["Message"][];
            /** @description Scored as given, never segmented again. */
            instances?: string[];
            /** @description Any JSON; not interpreted. */
            metadata?: unknown;
            /** @description The policy's tokens, for options.dense, which it needs: where each begins and ends in the response, in offset_unit, the end exclusive; in the order of the text. An empty one, such as a special token, is [n,n] with any n. With response only. */
            token_offsets?: components["schemas"]["TokenOffset"][];
        };
        /** @description Start and end. */
        TokenOffset: number[];
        Message: {
            /**
             * @description Who speaks; assistant is scored.
             * @example user
             * @example assistant
             */
            role: string;
            /** @description What is said. */
            content: string;
        };
        Options: {
            /**
             * @description compliance: in [0,1], 0.5 exactly at the threshold. logit: its log-odds, in [-20,20]. raw: 1 - violation.
             * @default compliance
             * @enum {string}
             */
            reward?: "compliance" | "logit" | "raw";
            /**
             * @description How the violations of the instances become the bag's. Each has a threshold of its own. max and noisy_or can only rise with more instances.
             * @default max
             * @enum {string}
             */
            aggregate?: "max" | "topk" | "noisy_or" | "mean";
            /**
             * @description What start and end count: code points (Python), bytes (Go, Rust) or UTF-16 code units (JavaScript, Java).
             * @default codepoint
             * @enum {string}
             */
            offset_unit?: "codepoint" | "utf8" | "utf16";
            /**
             * @description Whether results list their instances.
             * @default true
             */
            instances?: boolean;
            /**
             * @description How many of the largest violations topk averages; the other aggregates ignore it.
             * @default 3
             */
            top_k?: number;
            /**
             * @description Whether <think> blocks are scored.
             * @default skip
             * @enum {string}
             */
            reasoning?: "skip" | "score";
            /**
             * @description Adds token_rewards to each result: the reward laid out over the tokens of the response, so that they sum up to it. last: all on the last token. instance: what each instance changes, on its last token. witness: spread evenly over the witness. shaped: last, and potential-based shaping by the reward of the instances so far, which leaves what is optimal as it is. Absent: no token_rewards. Every item then needs response, and token_offsets unless tokenizer is given.
             * @enum {string}
             */
            dense?: "last" | "instance" | "witness" | "shaped";
            /**
             * @description The discount of shaped, that of the learner; the others ignore it. The shaped rewards' discounted sum is that of last; their plain sum is the reward with 1 alone.
             * @default 1
             */
            gamma?: number;
            /** @description Tokenizes the responses that come without token_offsets, without special tokens: the model's name or version, for its own, or a name of --policy-tokenizer. Needs dense. */
            tokenizer?: string;
        };
        ScoreAnswer: {
            /** @description The model that scored. */
            model: {
                name: string;
                /** @description Never used twice for other weights. */
                version: string;
            };
            /**
             * @description What start and end count.
             * @enum {string}
             */
            offset_unit: "codepoint" | "utf8" | "utf16";
            /** @description One for each response, in the order of the request. */
            results: components["schemas"]["Result"][];
            /** @description Where the time went, in milliseconds. */
            timing_ms: {
                /** @description Waiting while the model worked on others. */
                queue: number;
                /** @description Segmenting and tokenizing. */
                tokenize: number;
                /** @description In batches on the model. */
                inference: number;
                /** @description All of it. */
                total: number;
            };
        };
        Result: {
            /** @description The request's, or generated. */
            id: string;
            /** @description On the scale that the options name; [0,1] unless that is logit. Higher is better. */
            reward: number;
            /** @description violation <= threshold. */
            compliant: boolean;
            /** @description Of the response: the aggregate of its instances. */
            violation: number;
            /** @description The adjusted decision threshold T of that aggregate. */
            threshold: number;
            /** @description The instance with the largest violation; null when empty. */
            witness: components["schemas"]["Witness"] | null;
            /** @description Every scored instance, in document order; absent when the options say so. */
            instances?: components["schemas"]["Instance"][];
            /** @description There were more instances than --max-instances (4,096 by default); the rest was left out. */
            truncated: boolean;
            /** @description There was nothing to score; the reward is --empty-reward. */
            empty: boolean;
            /** @description One for each token of a dense reward. */
            token_rewards?: number[];
            /** @description The tokens, where options.tokenizer made them. */
            token_offsets?: components["schemas"]["TokenOffset"][];
        };
        Witness: {
            /** @description Which instance. */
            index: number;
            /** @description Which message start and end index; only when messages were sent. */
            message?: number;
            /** @description Where the span begins in the response, the message or the given instance, in offset_unit. */
            start: number;
            /** @description Where it ends; the end is not part of it. */
            end: number;
            /** @description The span itself. */
            text: string;
            /** @description g_-1(x) of the instance. */
            violation: number;
        };
        Instance: {
            /** @description As in a witness. */
            message?: number;
            /** @description As in a witness. */
            start: number;
            /** @description As in a witness. */
            end: number;
            /** @description g_-1(x): how likely the utterance is a violation. */
            violation: number;
        };
        ModelList: {
            /** @constant */
            object: "list";
            data: components["schemas"]["Model"][];
        };
        Model: {
            /** @description The version. */
            id: string;
            /** @constant */
            object: "model";
            /** @description When it was made, in seconds since 1970; 0 when unknown. */
            created: number;
            /** @constant */
            owned_by: "assay";
            name: string;
            version: string;
            /** @description The adjusted decision threshold T of aggregate max. */
            threshold: number;
            /**
             * @description The class names, in the checkpoint's order.
             * @example [
             *       "violation",
             *       "compliant"
             *     ]
             */
            labels: string[];
            /** @description This replica has it loaded. */
            serving: boolean;
            /** @description Every replica is to serve it; a request that pins no model gets it. */
            current: boolean;
            /**
             * @description initial: the service was started with it. promoted: it passed the gate or was put in by hand. rejected: it did not pass. retired: it was promoted once, and its files are gone.
             * @enum {string}
             */
            state?: "initial" | "promoted" | "rejected" | "retired";
            /** @description The version that it was trained from. */
            parent?: string;
            /** @description How it was trained. */
            method?: string;
            /** @description Who promoted or rejected it: gate, or the name of a token. */
            by?: string;
            /** @description Why, in a sentence. */
            reason?: string;
        };
        /** @description A model with the whole record of it. */
        ModelRecord: {
            data?: components["schemas"]["TrainingData"];
            /** @description The report of the gate: its figures and what decided. */
            gate?: Record<string, never>;
            /** @description What is stored of it, by name. */
            files?: {
                [key: string]: {
                    /** @description In bytes. */
                    size: number;
                    /** @description In hexadecimal. */
                    sha256: string;
                };
            };
        } & components["schemas"]["Model"];
        /** @description What a model was trained and judged on. */
        TrainingData: {
            /** @description The id of the training. */
            training: string;
            trigger: components["schemas"]["Trigger"];
            /** @description Why it started. */
            reason: string;
            /** @description The last sequence of the feedback stream that it read. */
            through: number;
            /** @description Responses trained on. */
            bags: number;
            /** @description Of these. */
            violations: number;
            /** @description Of these, labelled or changed since the training before. */
            new: number;
            /** @description Responses that the gate used. */
            held_out: number;
            /** @description Left out, because the raters do not agree. */
            disputed: number;
            raters: number;
            /** @description Of the ids and labels trained on. */
            digest: string;
            settings?: {
                [key: string]: unknown;
            };
            /** @description That training and gate took. */
            seconds: number;
        };
        /**
         * @description Why a training starts: enough new labels of both kinds; scores that are distributed otherwise than after the promotion; labels that contradict the model; the schedule; by hand.
         * @enum {string}
         */
        Trigger: "" | "bags" | "drift" | "disagreement" | "schedule" | "manual";
        Current: {
            /** @description What every replica is to serve. */
            version: string;
            /** Format: date-time */
            since: string;
            /** @description Who made it so. */
            by: string;
            /** @description Why. */
            reason: string;
            /** @description The versions before it, the last one last: the way back. */
            previous?: string[];
        };
        Reason: {
            /** @description Why, in a sentence; it is kept. */
            reason?: string;
        };
        TrainingAsk: {
            /** @description Why, in a sentence; it is kept. */
            reason?: string;
            /**
             * @description Judge the candidate by the labels that the held-out responses have now, instead of those that they had at the last promotion: for a policy that has changed.
             * @default false
             */
            refreeze?: boolean;
        };
        FeedbackBatch: {
            /** @description The client's name for it, for the log. */
            batch_id?: string;
            /** @description Judged one by one. */
            items: components["schemas"]["FeedbackItem"][];
        };
        /** @description The label of one rater on one whole response: its id and exactly one of response, messages and instances; or only the response_id of a response that was scored here. */
        FeedbackItem: {
            /** @description Of the response; the response_id where absent. */
            id?: string;
            /** @description The id of the result when assay scored the response. */
            response_id?: string;
            /** @enum {string} */
            label: "compliant" | "violation";
            prompt?: string;
            response?: string;
            messages?: components["schemas"]["Message"][];
            instances?: string[];
            /** @description Who gave the label, as the client says: it is not checked against the token. The majority of raters decides. */
            rater?: string;
            /**
             * Format: date-time
             * @description When; a later one of the same rater is a correction.
             */
            time?: string;
        };
        Receipt: {
            /** @description Stored, corrections among them. */
            accepted: number;
            /** @description Known already, or older than what is known. */
            duplicates: number;
            rejected: {
                /** @description Which item of the request. */
                index: number;
                /** @description Its id; empty when it has none. */
                id: string;
                /**
                 * @description invalid: a field is missing or wrong. unknown: its response_id names nothing that is kept. id_conflict: its id stands for another text already. erased: its id was erased. too_large: the store takes no item of this size. no_text: there is no utterance to learn from.
                 * @enum {string}
                 */
                code: "invalid" | "unknown" | "id_conflict" | "erased" | "too_large" | "no_text";
                /** @description What is wrong, and how to mend it. */
                message: string;
            }[];
        };
        /** @description Counts of responses that have a label by the majority of their raters. Only the scope admin sees which of them are held out: with the scope feedback, bags and violations count all of them, and held_out, held_out_violations and new are 0. Otherwise the counts would show the senders of labels which of them judge the next model. */
        FeedbackStats: {
            /** @description To train on: neither held out nor disputed. */
            bags: number;
            /** @description Of these. */
            violations: number;
            /** @description Never trained on: the gate judges by them. */
            held_out: number;
            /** @description Of these. */
            held_out_violations: number;
            /** @description Left out, because the raters do not agree. */
            disputed: number;
            raters: number;
            /** @description Labels that are kept, one a response and rater. */
            records: number;
            /** @description Of bags, those labelled or changed since the last training that was promoted or rejected. */
            new: {
                bags: number;
                violations: number;
            };
        };
        Candidates: {
            candidates: components["schemas"]["Candidate"][];
        };
        /** @description A response that somebody should label next, and why. Its text is in one of response, messages and instances. */
        Candidate: {
            /** @description The response_id of its label. */
            id: string;
            prompt?: string;
            response?: string;
            messages?: components["schemas"]["Message"][];
            instances?: string[];
            /** @description The version that scored it. */
            model: string;
            violation: number;
            threshold: number;
            /** @description What the order is by. */
            score: number;
            /** @description 1 at the threshold, less the further away. */
            uncertainty: number;
            /** @description How far two versions are apart; absent when only one has scored it. */
            disagreement?: number;
            /** @description To the most similar candidate before it. */
            similarity: number;
        };
        Erased: {
            id: string;
            /** @description How many were removed. */
            records: number;
        };
        /** @description The one training of all replicas, or that there is none. */
        TrainingStatus: {
            /** @enum {string} */
            phase: "idle" | "collecting" | "training" | "gating" | "publishing";
            id?: string;
            /** @description The replica that trains. */
            owner?: string;
            trigger?: components["schemas"]["Trigger"];
            /** @description Why it started. */
            reason?: string;
            /** @description Who asked for it. */
            by?: string;
            /** Format: date-time */
            started?: string;
            /** Format: date-time */
            updated?: string;
            /** @description The current version when it began. */
            base?: string;
            /** @description The last sequence of the feedback stream that it reads. */
            through?: number;
            bags?: number;
            held_out?: number;
            /** @description 1 for the first; more after the death of a service. */
            attempt?: number;
            /** @description How often its child process was killed. */
            interrupted?: number;
            /** @description As it was asked for. */
            refreeze?: boolean;
            progress?: {
                epoch: number;
                epochs: number;
                stage: string;
                /** @description Of all epochs. */
                step: number;
                steps: number;
                loss: number;
                /** @description An estimate, without the gate. */
                seconds_left: number;
            };
            /** @description How the training before ended. */
            last?: {
                id: string;
                /** @enum {string} */
                result: "promoted" | "rejected" | "failed";
                /** @description Of the candidate. */
                version?: string;
                reason: string;
                /** Format: date-time */
                finished: string;
                /** @description The last sequence of the feedback stream that it read. */
                through: number;
                /** @description Failed trainings in a row. */
                failures?: number;
            };
            /** @description A training that somebody asked for and that has not begun. */
            asked?: {
                by: string;
                reason?: string;
                /** Format: date-time */
                time: string;
                refreeze?: boolean;
            };
        };
        Training: {
            /** @description Trainings start by themselves. */
            auto: boolean;
            /** @description Why none starts now: what is missing, for the scope admin with counts. Empty when one does. */
            wait: string;
            /**
             * Format: date-time
             * @description When time alone changes that.
             */
            next?: string;
            feedback: components["schemas"]["FeedbackStats"];
            /** @description The recent scores of the current version against its reference, by the two-sample Kolmogorov-Smirnov test. */
            drift: {
                /** @description Scores of reference; 0 while they are gathered. */
                reference: number;
                /** @description Scores compared with them. */
                recent: number;
                /** @description The largest difference of the distribution functions. */
                distance: number;
                /** @description Of a distance as large without a drift. */
                p_value: number;
            };
            /** @description New labels against the decisions of the current version on the same responses. */
            disagreement: {
                labels: number;
                /** @description Of these, those that contradict the decision. */
                against: number;
            };
        } & components["schemas"]["TrainingStatus"];
        Event: {
            /** @description In the stream; what ?after= and Last-Event-ID go on from. */
            sequence: number;
            /** @description model.trained, model.promoted, model.rejected, model.rolledback, model.load_failed, training.started, training.progress, training.resumed, training.failed, feedback.erased, feedback.disputed; there may be more. */
            kind: string;
            /** Format: date-time */
            time: string;
            replica?: string;
            /** @description Of the model. */
            version?: string;
            /** @description Its id. */
            training?: string;
            by?: string;
            /** @description What happened and why, in a sentence. */
            reason: string;
            /** @description Figures. */
            details?: unknown;
        };
        Liveness: {
            /** @constant */
            status: "alive";
        };
        Readiness: {
            /** @constant */
            status: "ready";
            checks?: components["schemas"]["Checks"];
        };
        NotReady: {
            /** @enum {string} */
            status: "not_ready" | "draining";
            checks?: components["schemas"]["Checks"];
            error: components["schemas"]["ErrorDetail"];
        };
        /**
         * @description Each part by name: ok, or why it is not ready.
         * @example {
         *       "model": "ok",
         *       "streams": "connecting"
         *     }
         */
        Checks: {
            [key: string]: string;
        };
        Index: {
            /** @constant */
            name: "assay";
            endpoints: {
                method: string;
                path: string;
                does: string;
            }[];
        };
        Error: {
            error: components["schemas"]["ErrorDetail"];
        };
        ErrorDetail: {
            /**
             * @description For programs.
             * @enum {string}
             */
            code: "invalid" | "unauthorized" | "insufficient_scope" | "not_enabled" | "no_previous" | "no_files" | "damaged" | "changed" | "exists" | "store_full" | "unavailable" | "forbidden_origin" | "not_found" | "method_not_allowed" | "too_large" | "unsupported_media_type" | "unprocessable" | "client_gone" | "internal" | "model_failed" | "overloaded" | "not_ready" | "shutting_down" | "deadline_exceeded";
            /** @description For people: what was wrong, and how to mend it. */
            message: string;
            /** @description Path of the offending value, such as responses[3].instances[0], or the name of a header. */
            field?: string;
            /** @description As in the header X-Request-Id and in the log. */
            request_id: string;
        };
        /** @description A text, or a list of them. */
        OneOrManyTexts: string | string[];
        /** @description The content of a chat message: only text can be scored. */
        ChatContent: (string | null) | components["schemas"]["TextPart"][];
        TextPart: {
            /** @enum {unknown} */
            type: "text" | "input_text";
            text: string;
        };
        OpenRLHFRequest: {
            /** @description Prompt and response of each sample, with template and special tokens. Empty: an empty answer. */
            query: string | string[];
            /** @description The prompt of each query, to find the response behind it. */
            prompts?: (string | null)[] | null;
        };
        OpenRLHFAnswer: {
            /** @description Compliance. */
            rewards: number[];
            /** @description The same, for dynamic filtering. */
            scores: number[];
            /** @description Numbers alone: violation, threshold, compliant, empty, truncated, instances, response_length (code points), witness_index, witness_start, witness_end (-1 for an empty response). */
            extra_logs: {
                [key: string]: number[];
            };
            model?: {
                name: string;
                version: string;
            };
            /** @constant */
            offset_unit: "codepoint";
            /**
             * @description What the offsets of witnesses index: the response alone, never the query.
             * @constant
             */
            indexes: "response";
            witnesses: (components["schemas"]["Witness"] | null)[];
            /** @description Where each query holds its response, turn by turn. */
            responses: {
                start: number;
                end: number;
            }[][];
        };
        Sample: {
            prompt?: (string | null) | ({
                role?: unknown;
                content?: components["schemas"]["ChatContent"];
            } | null)[];
            response: string;
        };
        ClassifyRequest: {
            /** @description Any; the version of a model that serves pins it. */
            model?: string | null;
            input?: components["schemas"]["OneOrManyTexts"] | null;
            /** @description Instead of input: what the assistant said is scored. */
            messages?: ({
                role?: string | null;
                content?: components["schemas"]["ChatContent"];
            } | null)[] | null;
            /** @description Instead of input, as SGLang's clients send it; 400 beside input or messages. */
            text?: components["schemas"]["OneOrManyTexts"] | null;
        };
        /** @description [1-reward, reward]: violation, compliant. */
        ClassProbabilities: number[];
        /** @description Tokens are not counted here: 0. */
        Usage: {
            prompt_tokens: number;
            total_tokens: number;
        };
        SGLangOutcome: {
            /** @description The reward. */
            embedding: number[];
            meta_info: {
                id?: string;
                prompt_tokens?: number;
            };
        };
        /** @description As vLLM answers; an object or list as SGLang answers where text was sent. */
        ClassifyAnswer: components["schemas"]["Classes"] | components["schemas"]["SGLangOutcome"] | components["schemas"]["SGLangOutcome"][];
        Classes: {
            id: string;
            /** @constant */
            object: "list";
            created: number;
            model: string;
            data: {
                index: number;
                /** @enum {unknown} */
                label: "violation" | "compliant";
                probs: components["schemas"]["ClassProbabilities"];
                /** @constant */
                num_classes: 2;
            }[];
            usage: components["schemas"]["Usage"];
        };
        /** @description One of the first three and one of the other four. */
        PairsRequest: {
            model?: string | null;
            /** @description The prompt, or one for each response. */
            text_1?: (string | null) | string[];
            /** @description The prompt, or one for each response. */
            data_1?: (string | null) | string[];
            /** @description The prompt, or one for each response. */
            queries?: (string | null) | string[];
            /** @description The responses. */
            text_2?: (string | null) | string[];
            /** @description The responses. */
            data_2?: (string | null) | string[];
            /** @description The responses. */
            documents?: (string | null) | string[];
            /** @description The responses. */
            items?: (string | null) | string[];
        };
        PairsAnswer: {
            id: string;
            /** @constant */
            object: "list";
            created: number;
            model: string;
            data: {
                index: number;
                /** @constant */
                object: "score";
                score: number;
            }[];
            usage: components["schemas"]["Usage"];
        };
        EmbeddingRequest: {
            model?: string | null;
            input: components["schemas"]["OneOrManyTexts"];
            /** @enum {unknown} */
            encoding_format?: "float" | "base64" | "" | null;
        };
        EmbeddingAnswer: {
            /** @constant */
            object: "list";
            model: string;
            data: {
                /** @constant */
                object: "embedding";
                embedding: components["schemas"]["ClassProbabilities"] | string;
                index: number;
            }[];
            usage: components["schemas"]["Usage"];
        };
        ModerationRequest: {
            model?: string | null;
            /** @description A text, a list of texts, or the parts of one input. */
            input: string | string[] | components["schemas"]["TextPart"][];
        };
        ModerationAnswer: {
            id: string;
            model: string;
            results: {
                flagged: boolean;
                categories: {
                    violation: boolean;
                };
                category_scores: {
                    violation: number;
                };
                category_applied_input_types: {
                    violation: string[];
                };
                witness: components["schemas"]["Witness"] | null;
            }[];
        };
        PredictRequest: {
            /** @description A text; a pair of prompt and response; or a batch of lists of one text or such a pair. */
            inputs: string | string[] | string[][];
            /** @description Log-odds instead of probabilities. */
            raw_scores?: boolean | null;
            /** @description Ignored: long texts are scored in windows. */
            truncate?: unknown;
            /** @description Ignored. */
            truncation_direction?: unknown;
            /** @description What huggingface_hub's InferenceClient sends: the answer is a list of lists then. */
            parameters?: {
                /**
                 * @description none: log-odds.
                 * @enum {unknown}
                 */
                function_to_apply?: "sigmoid" | "softmax" | "none" | null;
                top_k?: number | null;
            } | null;
        };
        /** @description The larger score first. */
        Prediction: {
            score: number;
            /** @enum {unknown} */
            label: "violation" | "compliant";
        }[];
        /** @description A list for a text or a pair, a list of lists for a batch or with parameters. */
        PredictAnswer: components["schemas"]["Prediction"] | components["schemas"]["Prediction"][];
        TEIInfo: {
            model_id: string;
            /** @description The version that serves. */
            model_sha: string;
            model_type: Record<string, never>;
            max_client_batch_size: number;
        } & {
            [key: string]: unknown;
        };
        ContentsRequest: {
            contents: components["schemas"]["OneOrManyTexts"];
            /** @description Ignored. */
            detector_params?: unknown;
        };
        /** @description For each content, its instances over the threshold. */
        ContentsAnswer: {
            /** @description Code points. */
            start: number;
            end: number;
            text: string;
            /** @constant */
            detection: "violation";
            /** @constant */
            detection_type: "violation";
            score: number;
            evidence: unknown[];
            metadata: Record<string, never>;
        }[][];
        Tensor: {
            name: string;
            shape: number[];
            /** @enum {unknown} */
            datatype: "BYTES" | "FP32" | "INT32" | "BOOL";
            data?: unknown[];
            parameters?: {
                binary_data_size?: number;
            };
        };
        InputTensor: {
            /** @description text, sentences or prompt; any where it is the only one. */
            name: string;
            /** @description Its product is the number of texts. */
            shape: number[];
            /** @constant */
            datatype: "BYTES";
            /** @description The texts, flat or nested as the shape is. */
            data?: unknown[];
            parameters?: {
                /** @description Instead of data: how many bytes after the JSON are this tensor's. */
                binary_data_size?: number | null;
            } | null;
        };
        InferRequest: {
            id?: string | null;
            /** @description text (or sentences); prompt, one for each text, optional. */
            inputs: components["schemas"]["InputTensor"][];
            outputs?: {
                /** @enum {unknown} */
                name: "reward" | "violation" | "compliant" | "witness_start" | "witness_end" | "witness_text" | "rewards" | "exceeded";
                parameters?: {
                    binary_data?: boolean | null;
                } | null;
            }[] | null;
            parameters?: ({
                binary_data_output?: boolean | null;
            } & {
                [key: string]: unknown;
            }) | null;
        };
        InferAnswer: {
            model_name: string;
            model_version: string;
            id?: string;
            outputs: components["schemas"]["Tensor"][];
        };
        TensorInfo: {
            name: string;
            datatype: string;
            shape: number[];
        };
        OIPModel: {
            name: string;
            versions: string[];
            platform: string;
            inputs: components["schemas"]["TensorInfo"][];
            outputs: components["schemas"]["TensorInfo"][];
        };
        OIPIndex: {
            name: string;
            version: string;
            /** @constant */
            state: "READY";
            reason: string;
        }[];
        OpenAIFailure: {
            error: {
                message: string;
                type: string;
                param: string | null;
                code: string | number;
            };
        };
        SGLangFailure: {
            /** @constant */
            object: "error";
            message: string;
            type: string;
            param: string | null;
            code: number;
        };
        TEIFailure: {
            error: string;
            /** @enum {unknown} */
            error_type: "Validation" | "Empty" | "Overloaded" | "Unhealthy" | "Backend";
        };
        FMSFailure: {
            code: number;
            message: string;
        };
        OIPFailure: {
            error: string;
        };
    };
    responses: {
        /** @description Broken JSON, a wrong or null type, an unknown option or value, invalid UTF-8, a lone surrogate, nesting too deep, or a bad header. Code `invalid`. */
        Invalid: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "invalid",
                 *         "field": "options.reward",
                 *         "message": "unknown value \"probit\"; use one of compliance, logit, raw",
                 *         "request_id": "7K5Q3ZJ2M4XW6YB8N1RT"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A token is needed, or the one that was sent is not known. Code `unauthorized`. */
        Unauthorized: {
            headers: {
                "WWW-Authenticate": components["headers"]["Challenge"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The models are not in a state in which this can be done. Codes `no_previous` (nothing to roll back to), `no_files` (the version was rejected or retired, and its files are gone), `damaged` (its files are not what was stored), `changed` (somebody else did something meanwhile), `exists`. */
        Conflict: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service was started without the streams that this needs. Code `not_enabled`. */
        NotEnabled: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The token does not have the scope (code `insufficient_scope`), or a web page of an origin that the service does not trust asks (code `forbidden_origin`). */
        Forbidden: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description No such path or model version, or the model that the request pins is not loaded. Code `not_found`. */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The path has other methods; Allow lists them. Code `method_not_allowed`. */
        MethodNotAllowed: {
            headers: {
                Allow: components["headers"]["Allow"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body is over --max-body, there are more than --max-responses responses or items, their instances (given ones, messages or found utterances) are more than 524288 in all, the results take more than 64 MiB (send `instances: false` or fewer responses), or the request alone needs more memory than --request-memory allows one request. Code `too_large`. */
        TooLarge: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body is not declared as JSON (or, where that is taken, as application/x-ndjson) in UTF-8, or has another encoding than gzip or zstd. Code `unsupported_media_type`. */
        UnsupportedMediaType: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The list of responses or items is empty. Code `unprocessable`. */
        Unprocessable: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The client closed the connection before its answer. Code `client_gone`; usually only the log shows it. */
        ClientGone: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The model or the service failed; the log says why under the request id. Codes `model_failed`, `internal`. */
        Internal: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The queue is full, or so long that the request could not be done in the time that its client waits; the feedback store is full or cannot be reached, no model or stream is there yet, or the service shuts down. Nothing of a batch of labels was taken: send it again. Codes `overloaded`, `store_full`, `unavailable`, `not_ready`, `shutting_down`. */
        Unavailable: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The answer was not there within X-Request-Timeout or --request-timeout. Code `deadline_exceeded`. */
        DeadlineExceeded: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A failure in vLLM's and OpenAI's shape, with the status that it has elsewhere in this document. Overload is 503 with Retry-After, never 429. */
        OpenAIFailed: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["OpenAIFailure"];
            };
        };
        /** @description A failure in SGLang's shape, with the status that it has elsewhere in this document. Overload is 503 with Retry-After, never 429. */
        SGLangFailed: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["SGLangFailure"];
            };
        };
        /** @description A failure in Text Embeddings Inference's shape, with the status that it has elsewhere in this document. Overload is 503 with Retry-After, never 429. */
        TEIFailed: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["TEIFailure"];
            };
        };
        /** @description A failure in FMS Guardrails' shape, with the status that it has elsewhere in this document. Overload is 503 with Retry-After, never 429. */
        FMSFailed: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["FMSFailure"];
            };
        };
        /** @description A failure in the Open Inference Protocol's shape, with the status that it has elsewhere in this document. Overload is 503 with Retry-After, never 429. */
        OIPFailed: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["OIPFailure"];
            };
        };
    };
    parameters: {
        /**
         * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
         * @example step-12/sample-3
         */
        RequestId: string;
        /**
         * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
         * @example 30
         */
        RequestTimeout: string;
        /**
         * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
         * @example bulk
         */
        Priority: "interactive" | "bulk" | "";
        /**
         * @description W3C trace context; it is written to the log.
         * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
         */
        Traceparent: string;
    };
    requestBodies: never;
    headers: {
        /** @description The id of the request, as in the log: the client's own, or a generated one. */
        RequestId: string;
        /** @description Whole seconds to wait before the next try, rounded up. */
        RetryAfter: string;
        /** @description Only while NATS is unreachable: how many seconds ago what is shown was true. */
        Age: string;
        /**
         * @description As RFC 6750, section 3, has it.
         * @example Bearer realm="assay", scope="score"
         */
        Challenge: string;
        /**
         * @description The methods that the path has.
         * @example POST, OPTIONS
         */
        Allow: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    score: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description At most --max-body bytes after decompression (32 MiB by default), and at least 128 KiB/s on average once it has taken 10 s. Content-Encoding gzip and zstd (window up to 8 MiB; frames after the first take up to its window, or 1 MiB) are understood. The ids of responses and the names of models and tokenizers have at most 512 bytes. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScoreRequest"];
            };
        };
        responses: {
            /** @description One result for each response, in order. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScoreAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Unprocessable"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    listModels: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The list. */
            200: {
                headers: {
                    Age: components["headers"]["Age"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    showModel: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description A version, as data[].id of the list names it, or a name.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The model. */
            200: {
                headers: {
                    Age: components["headers"]["Age"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelRecord"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    promote: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description A version, as data[].id of the list names it.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        /** @description Optional: why, for the record. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description It is current. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Current"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    rollback: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description Optional: why, for the record. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description The version that is current again. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Current"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    showFeedback: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts. */
            200: {
                headers: {
                    Age: components["headers"]["Age"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FeedbackStats"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    addFeedback: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description At most --max-body bytes after decompression. As application/x-ndjson, each line is one item. Content-Encoding as for scoring. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["FeedbackBatch"];
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description What became of each item. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Receipt"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Unprocessable"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    listCandidates: {
        parameters: {
            query?: {
                /** @description How many. */
                n?: number;
            };
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description At most n responses. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Candidates"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    eraseFeedback: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description The id of the response, escaped as one part of a path.
                 * @example r1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is erased. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Erased"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    showTraining: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The training. */
            200: {
                headers: {
                    Age: components["headers"]["Age"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Training"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    startTraining: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description Optional: why, for the record. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TrainingAsk"];
            };
        };
        responses: {
            /** @description It is asked for. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrainingStatus"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    showEvents: {
        parameters: {
            query?: {
                /** @description Only events after this sequence. */
                after?: number;
                /** @description Begin with the last n events; 0: with what happens from now on. Without it and without a sequence, the stream begins with the oldest event that the process holds. As JSON: how many, from 1, by default 100. */
                n?: number;
            };
            header?: {
                /** @description The id of the last event that was seen: the stream goes on after it. Comes before the query. */
                "Last-Event-ID"?: string;
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events. */
            200: {
                headers: {
                    Age: components["headers"]["Age"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                    "application/json": components["schemas"]["Event"][];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            501: components["responses"]["NotEnabled"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    openrlhfReward: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OpenRLHFRequest"];
            };
        };
        responses: {
            /** @description A value for each query. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenRLHFAnswer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Unprocessable"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    slimeReward: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Sample"];
            };
        };
        responses: {
            /** @description The compliance of the sample. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": number;
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Unprocessable"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    slimeResult: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Sample"];
            };
        };
        responses: {
            /** @description The result of the sample; its offsets index the response. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Result"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            405: components["responses"]["MethodNotAllowed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Unprocessable"];
            499: components["responses"]["ClientGone"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["DeadlineExceeded"];
        };
    };
    vllmClassify: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ClassifyRequest"];
            };
        };
        responses: {
            /** @description The classes of each input. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClassifyAnswer"];
                };
            };
            400: components["responses"]["OpenAIFailed"];
            401: components["responses"]["OpenAIFailed"];
            403: components["responses"]["OpenAIFailed"];
            404: components["responses"]["OpenAIFailed"];
            405: components["responses"]["OpenAIFailed"];
            413: components["responses"]["OpenAIFailed"];
            415: components["responses"]["OpenAIFailed"];
            422: components["responses"]["OpenAIFailed"];
            499: components["responses"]["OpenAIFailed"];
            500: components["responses"]["OpenAIFailed"];
            503: components["responses"]["OpenAIFailed"];
            504: components["responses"]["OpenAIFailed"];
        };
    };
    vllmScore: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PairsRequest"];
            };
        };
        responses: {
            /** @description The reward of each pair. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PairsAnswer"];
                };
            };
            400: components["responses"]["OpenAIFailed"];
            401: components["responses"]["OpenAIFailed"];
            403: components["responses"]["OpenAIFailed"];
            404: components["responses"]["OpenAIFailed"];
            405: components["responses"]["OpenAIFailed"];
            413: components["responses"]["OpenAIFailed"];
            415: components["responses"]["OpenAIFailed"];
            422: components["responses"]["OpenAIFailed"];
            499: components["responses"]["OpenAIFailed"];
            500: components["responses"]["OpenAIFailed"];
            503: components["responses"]["OpenAIFailed"];
            504: components["responses"]["OpenAIFailed"];
        };
    };
    sglangEmbeddings: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EmbeddingRequest"];
            };
        };
        responses: {
            /** @description The classes of each input. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EmbeddingAnswer"];
                };
            };
            400: components["responses"]["SGLangFailed"];
            401: components["responses"]["SGLangFailed"];
            403: components["responses"]["SGLangFailed"];
            404: components["responses"]["SGLangFailed"];
            405: components["responses"]["SGLangFailed"];
            413: components["responses"]["SGLangFailed"];
            415: components["responses"]["SGLangFailed"];
            422: components["responses"]["SGLangFailed"];
            499: components["responses"]["SGLangFailed"];
            500: components["responses"]["SGLangFailed"];
            503: components["responses"]["SGLangFailed"];
            504: components["responses"]["SGLangFailed"];
        };
    };
    moderate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModerationRequest"];
            };
        };
        responses: {
            /** @description A result for each input. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModerationAnswer"];
                };
            };
            400: components["responses"]["OpenAIFailed"];
            401: components["responses"]["OpenAIFailed"];
            403: components["responses"]["OpenAIFailed"];
            404: components["responses"]["OpenAIFailed"];
            405: components["responses"]["OpenAIFailed"];
            413: components["responses"]["OpenAIFailed"];
            415: components["responses"]["OpenAIFailed"];
            422: components["responses"]["OpenAIFailed"];
            499: components["responses"]["OpenAIFailed"];
            500: components["responses"]["OpenAIFailed"];
            503: components["responses"]["OpenAIFailed"];
            504: components["responses"]["OpenAIFailed"];
        };
    };
    teiPredict: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PredictRequest"];
            };
        };
        responses: {
            /** @description The classes of each input. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description Milliseconds. */
                    "X-Compute-Time"?: string;
                    /** @description Milliseconds. */
                    "X-Total-Time"?: string;
                    /** @description Milliseconds. */
                    "X-Tokenization-Time"?: string;
                    /** @description Milliseconds. */
                    "X-Queue-Time"?: string;
                    /** @description Milliseconds. */
                    "X-Inference-Time"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PredictAnswer"];
                };
            };
            400: components["responses"]["TEIFailed"];
            401: components["responses"]["TEIFailed"];
            403: components["responses"]["TEIFailed"];
            404: components["responses"]["TEIFailed"];
            405: components["responses"]["TEIFailed"];
            413: components["responses"]["TEIFailed"];
            415: components["responses"]["TEIFailed"];
            422: components["responses"]["TEIFailed"];
            424: components["responses"]["TEIFailed"];
            499: components["responses"]["TEIFailed"];
            500: components["responses"]["TEIFailed"];
            503: components["responses"]["TEIFailed"];
            504: components["responses"]["TEIFailed"];
        };
    };
    teiInfo: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What serves. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TEIInfo"];
                };
            };
            400: components["responses"]["TEIFailed"];
            401: components["responses"]["TEIFailed"];
            403: components["responses"]["TEIFailed"];
            404: components["responses"]["TEIFailed"];
            405: components["responses"]["TEIFailed"];
            499: components["responses"]["TEIFailed"];
            500: components["responses"]["TEIFailed"];
            503: components["responses"]["TEIFailed"];
            504: components["responses"]["TEIFailed"];
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can score. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["TEIFailed"];
            404: components["responses"]["TEIFailed"];
            405: components["responses"]["TEIFailed"];
            500: components["responses"]["TEIFailed"];
            503: components["responses"]["TEIFailed"];
        };
    };
    ping: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can score. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["TEIFailed"];
            404: components["responses"]["TEIFailed"];
            405: components["responses"]["TEIFailed"];
            500: components["responses"]["TEIFailed"];
            503: components["responses"]["TEIFailed"];
        };
    };
    fmsContents: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Any: there is one detector, assay.
                 * @example assay
                 */
                "detector-id"?: string;
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContentsRequest"];
            };
        };
        responses: {
            /** @description A list for each content. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContentsAnswer"];
                };
            };
            400: components["responses"]["FMSFailed"];
            401: components["responses"]["FMSFailed"];
            403: components["responses"]["FMSFailed"];
            404: components["responses"]["FMSFailed"];
            405: components["responses"]["FMSFailed"];
            413: components["responses"]["FMSFailed"];
            415: components["responses"]["FMSFailed"];
            422: components["responses"]["FMSFailed"];
            499: components["responses"]["FMSFailed"];
            500: components["responses"]["FMSFailed"];
            503: components["responses"]["FMSFailed"];
            504: components["responses"]["FMSFailed"];
        };
    };
    oipServer: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The server. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        version: string;
                        extensions: string[];
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
        };
    };
    oipLive: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        live: boolean;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
        };
    };
    oipReady: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        ready: boolean;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
        };
    };
    oipModel: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The model. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OIPModel"];
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipConfig: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        max_batch_size: number;
                        input: Record<string, never>[];
                        output: Record<string, never>[];
                    } & {
                        [key: string]: unknown;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipModelReady: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        ready: boolean;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
        };
    };
    oipInfer: {
        parameters: {
            query?: never;
            header?: {
                /** @description How many bytes of the body are JSON; raw tensors follow. */
                "Inference-Header-Content-Length"?: string;
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InferRequest"];
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description A tensor for each output. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description How many bytes of the body are JSON; raw tensors follow. */
                    "Inference-Header-Content-Length"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InferAnswer"];
                    "application/octet-stream": string;
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            413: components["responses"]["OIPFailed"];
            415: components["responses"]["OIPFailed"];
            422: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipModelVersion: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that is to answer.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The model. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OIPModel"];
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipConfigVersion: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that is to answer.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        max_batch_size: number;
                        input: Record<string, never>[];
                        output: Record<string, never>[];
                    } & {
                        [key: string]: unknown;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipModelReadyVersion: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that is to answer.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        ready: boolean;
                    };
                };
            };
            400: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
        };
    };
    oipInferVersion: {
        parameters: {
            query?: never;
            header?: {
                /** @description How many bytes of the body are JSON; raw tensors follow. */
                "Inference-Header-Content-Length"?: string;
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description Who waits. Requests that are interactive go before those that are bulk, which fill the machine and are never starved. Absent or empty: POST /v1/score is interactive with one response and bulk with more; the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that is to answer.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InferRequest"];
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description A tensor for each output. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description How many bytes of the body are JSON; raw tensors follow. */
                    "Inference-Header-Content-Length"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InferAnswer"];
                    "application/octet-stream": string;
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            413: components["responses"]["OIPFailed"];
            415: components["responses"]["OIPFailed"];
            422: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipIndex: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description Ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description The models. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OIPIndex"];
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            413: components["responses"]["OIPFailed"];
            415: components["responses"]["OIPFailed"];
            422: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipLoad: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        /** @description Ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description It is ready. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            413: components["responses"]["OIPFailed"];
            415: components["responses"]["OIPFailed"];
            422: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    oipUnload: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Names the request in the answer and in the log: up to 128 letters, digits and -_.:/+=@. Anything else is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description How long the client waits: seconds, or a duration such as 1m30s; more than 0. The request ends with 504 after it. The service's own limit (--request-timeout) is the most it can be, and holds when this is absent or empty.
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description W3C trace context; it is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name; that of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        /** @description Ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description There is no such model in memory. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            400: components["responses"]["OIPFailed"];
            401: components["responses"]["OIPFailed"];
            403: components["responses"]["OIPFailed"];
            404: components["responses"]["OIPFailed"];
            405: components["responses"]["OIPFailed"];
            413: components["responses"]["OIPFailed"];
            415: components["responses"]["OIPFailed"];
            422: components["responses"]["OIPFailed"];
            499: components["responses"]["OIPFailed"];
            500: components["responses"]["OIPFailed"];
            503: components["responses"]["OIPFailed"];
            504: components["responses"]["OIPFailed"];
        };
    };
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Alive. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Liveness"];
                };
            };
            405: components["responses"]["MethodNotAllowed"];
        };
    };
    readyz: {
        parameters: {
            query?: {
                /** @description 1: answer 503 while the streams are not available, also after the start. */
                streams?: "1" | "0" | "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Ready. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            400: components["responses"]["Invalid"];
            405: components["responses"]["MethodNotAllowed"];
            /** @description Not ready; checks says what is missing. */
            503: {
                headers: {
                    "Retry-After": components["headers"]["RetryAfter"];
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotReady"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The metrics. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                    "application/openmetrics-text": string;
                };
            };
            405: components["responses"]["MethodNotAllowed"];
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            405: components["responses"]["MethodNotAllowed"];
        };
    };
    index: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The endpoints. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Index"];
                };
            };
            405: components["responses"]["MethodNotAllowed"];
        };
    };
}
