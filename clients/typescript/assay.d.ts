// Made by generate.mjs from ../../api/openapi.json; change that, and npm run generate.
// sha256 of the document: da36aed1128a0d7a5d0d32aeb3c87b1ddd882515f0586ab6c9761dab71be9a41

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
         * @description Returns the reward, the decision, the witness span and the violation of every instance for each response. Results keep the order of the request. The score of a response does not depend on the other responses of the request.
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
         * @description Lists every model version. Those that serve come first, beginning with the one that scores requests that pin none. The others on record follow, the newest first. The list is empty while no model is loaded. The object is compatible with OpenAI clients.
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
         * @description Returns one model by its version, or by the name under which a version serves: its origin, the data that it was trained and evaluated on, and who promoted or rejected it, and why.
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
         * @description Promotes a stored version on every replica, regardless of the decision of the gate. The response is the new current version; replicas load it in the background and then switch to it.
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
         * @description Promotes the previous version again on every replica.
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
         * @description Counts the labels of all raters.
         */
        get: operations["showFeedback"];
        put?: never;
        /**
         * Send labels
         * @description Each item is the label of one rater for one whole response. The service responds once all accepted items are durable: the embedded server syncs them to disk with its default --sync always, and an external server syncs as it is configured. An item that is sent again is a duplicate. Another label or a later time for the same id and rater is a correction and counts as accepted. Rejected items are listed, and the others are stored; the status is 202 even if all items are rejected.
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
         * @description Returns the scored responses whose labels would be the most informative, the best first: close to the threshold, scored differently by two versions, and dissimilar to each other. It requires that scored responses are stored.
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
         * @description Deletes everything stored about a response: the labels of every rater, its text, and its rewards and dead letters on NATS. The service searches those streams; if that exceeds the timeout, repeat the request to continue. Later training runs do not use the response, and later items with this id are rejected. An unknown id is recorded as erased as well.
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
         * Show the training status
         * @description Returns the training run of the fleet and its progress, the outcome of the previous run, what the next run waits for, and the counts of labels.
         */
        get: operations["showTraining"];
        put?: never;
        /**
         * Start a training run
         * @description Requests a training run manually. It starts as soon as no other run is in progress and there are enough labels. The cooldown does not delay it.
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
         * @description Streams the events of models, training runs and labels as server-sent events: id is the sequence, event the kind, and data an Event as JSON. A comment every 15 seconds keeps the connection open. An event named failed reports why a stream ends early: the events cannot be read, the client reads too slowly, or its token was revoked or lost the scope. A process serves all streams from the last 10,000 events in memory (at most 16 MiB), and responds 503 to more than 256 concurrent streams. With Accept: application/json, the response is a list of the last events.
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
         * Return rewards to OpenRLHF
         * @description Implements the reward server of OpenRLHF (--reward.remote_url, --remote_rm_url) for all versions of its clients. The template and special tokens are removed; spans index only the response.
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
         * Return the reward of a sample to slime and miles
         * @description Implements the remote reward model of slime and miles (--rm-url): the whole response body is the reward.
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
         * Return the result of a sample to slime and miles
         * @description Like /slime, for --reward-key reward: the response body is a complete result.
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
         * Return class probabilities as vLLM does
         * @description Implements the classification of vLLM, as verl reads it: compliant is the last class. In a conversation that is rendered with a chat template, the last answer of the assistant is scored. use_activation and truncate_prompt_tokens are ignored.
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
         * Return the rewards of pairs as vLLM does
         * @description Implements the scoring of pairs of vLLM, where a pair is a prompt and a response. vLLM's other path, /v1/score, is assay's native endpoint.
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
         * Return class probabilities as SGLang does
         * @description Implements the embeddings of a reward model in SGLang, as verl reads them: the last element is the reward.
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
         * @description Implements the moderation endpoint of OpenAI. The only category is violation; its score is 1 - reward.
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
         * @description Implements the classification of Text Embeddings Inference. A flat list of two texts is a pair of prompt and response; a batch is a list of lists.
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
         * Show the model as Text Embeddings Inference does
         * @description Describes the serving model in the format of Text Embeddings Inference.
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
         * Readiness
         * @description Readiness for clients of Text Embeddings Inference, vLLM and SGLang: like /readyz, without a body.
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
         * Readiness
         * @description This path is equivalent to /health.
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
         * @description Implements a text contents detector of FMS Guardrails: it returns the instances over the threshold, with offsets in code points.
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
         * Show the server
         * @description Describes the server, as the Open Inference Protocol, version 2, defines.
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
         * Liveness
         * @description Liveness, as the Open Inference Protocol defines.
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
         * Readiness
         * @description Readiness, as the Open Inference Protocol defines.
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
         * Show the inputs and outputs of a model
         * @description Describes the inputs and outputs of a model, as the Open Inference Protocol defines.
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
         * Show the configuration of a model
         * @description Returns the model configuration of Triton, which the clients of PyTriton read.
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
         * Readiness of a model
         * @description Readiness of a model, as the Open Inference Protocol defines.
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
         * Return rewards as tensors
         * @description Scores texts, as the Open Inference Protocol, version 2, defines, with the binary tensors of Triton. The names of NeMo-Aligner (sentences, rewards, exceeded) are supported.
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
         * Show the inputs and outputs of a model
         * @description Describes the inputs and outputs of a version, as the Open Inference Protocol defines.
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
         * Show the configuration of a model
         * @description Returns the model configuration of Triton, which the clients of PyTriton read.
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
         * Readiness of a model
         * @description Readiness of a version, as the Open Inference Protocol defines.
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
         * Return rewards as tensors
         * @description Scores texts, as the Open Inference Protocol, version 2, defines, with the binary tensors of Triton. The names of NeMo-Aligner (sentences, rewards, exceeded) are supported.
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
         * List the models that serve
         * @description Lists the models that serve, in the format of Triton's model repository.
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
         * @description Loads a model, as in Triton's model repository. The model is assay or another version, which is loaded in addition to the current one.
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
         * @description Unloads a model, as in Triton's model repository. A request to unload a model that serves fails with 400.
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
         * @description Responds 200 as long as the process is alive, including during a drain.
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
         * @description Responds 200 once the model is loaded and all streams exist, and 503 before that and during a drain. A later outage of NATS does not change the status, since scoring over HTTP does not need NATS; it shows in `checks`, and /readyz?streams=1 then responds 503. The state is at most about a second old.
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
         * @description Returns the metrics in the Prometheus text format, or as OpenMetrics if the Accept header requests it.
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
            /** @description The responses to score, at most --max-responses (8,192 by default). */
            responses: components["schemas"]["Item"][];
            /**
             * @description Pins a model by name or version; an unknown one is a 404. By default, the current model scores.
             * @example 2026.1
             */
            model?: string;
            options?: components["schemas"]["Options"];
        };
        /** @description A response. It has exactly one of response, messages and instances. */
        Item: {
            /** @description The id of the result, and the response_id of later feedback. By default, the service generates one. */
            id?: string;
            /** @description The prompt of the response. It is context for checkpoints that were trained with prompts, and ignored by others. Offsets never index it. */
            prompt?: string;
            /** @description The text to segment and score. The result of a text without a non-space character is empty. */
            response?: string;
            /** @description A conversation. The messages with the role assistant are scored; the others are context. */
            messages?: components["schemas"]["Message"][];
            /** @description The instances to score as they are, without segmentation. */
            instances?: string[];
            /** @description Any JSON value. It is ignored. */
            metadata?: unknown;
            /** @description The tokens of the policy for options.dense, which is required with it: the start and the exclusive end of each token in the response, in offset_unit and in the order of the text. An empty token, such as a special token, is [n,n] with any n. It is allowed only with response. */
            token_offsets?: components["schemas"]["TokenOffset"][];
        };
        /** @description The start and the exclusive end. */
        TokenOffset: number[];
        Message: {
            /**
             * @description The role of the message; assistant is scored.
             * @example user
             * @example assistant
             */
            role: string;
            /** @description The text of the message. */
            content: string;
        };
        Options: {
            /**
             * @description The scale of the reward. compliance is in [0,1] and 0.5 exactly at the threshold; logit is its log-odds, in [-20,20]; raw is 1 - violation.
             * @default compliance
             * @enum {string}
             */
            reward?: "compliance" | "logit" | "raw";
            /**
             * @description How the violations of the instances are aggregated to the violation of the bag. Each aggregate has its own threshold. max and noisy_or never decrease with more instances.
             * @default max
             * @enum {string}
             */
            aggregate?: "max" | "topk" | "noisy_or" | "mean";
            /**
             * @description The unit of start and end: code points (Python), bytes (Go, Rust) or UTF-16 code units (JavaScript, Java).
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
             * @description The number of the largest violations that topk averages. Other aggregates ignore it.
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
             * @description Adds token_rewards to each result: token-level rewards that sum to the reward. last assigns the reward to the last token; instance assigns the change by each instance to its last token; witness distributes the reward evenly over the witness; shaped is last with potential-based shaping by the reward of the instances so far, which preserves the optimal policy. Without it, there are no token_rewards. Every item then needs response, and token_offsets unless tokenizer is set.
             * @enum {string}
             */
            dense?: "last" | "instance" | "witness" | "shaped";
            /**
             * @description The discount factor for shaped, which must be that of the learner. Other values of dense ignore it. The discounted sum of the shaped rewards equals that of last; their plain sum equals the reward only with 1.
             * @default 1
             */
            gamma?: number;
            /** @description The tokenizer for responses without token_offsets: the name or version of the model for the tokenizer of the model, or a name of --policy-tokenizer. It adds no special tokens. It requires dense. */
            tokenizer?: string;
        };
        ScoreAnswer: {
            /** @description The model that scored. */
            model: {
                name: string;
                /** @description The version, which is never reused for other weights. */
                version: string;
            };
            /**
             * @description The unit of start and end.
             * @enum {string}
             */
            offset_unit: "codepoint" | "utf8" | "utf16";
            /** @description The results, one for each response, in the order of the request. */
            results: components["schemas"]["Result"][];
            /** @description The time of each phase in milliseconds. */
            timing_ms: {
                /** @description The time in the queue while the model ran other requests. */
                queue: number;
                /** @description The time to segment and tokenize. */
                tokenize: number;
                /** @description The time to run the model. */
                inference: number;
                /** @description The total time. */
                total: number;
            };
        };
        Result: {
            /** @description The id of the request item, or a generated one. */
            id: string;
            /** @description The reward on the scale of options.reward: in [0,1], except for logit. Higher is better. */
            reward: number;
            /** @description Whether violation <= threshold. */
            compliant: boolean;
            /** @description The violation of the response: the aggregate of its instances. */
            violation: number;
            /** @description The adjusted decision threshold T of that aggregate. */
            threshold: number;
            /** @description The instance with the largest violation; null if the response is empty. */
            witness: components["schemas"]["Witness"] | null;
            /** @description Every scored instance in document order; absent with options.instances false. */
            instances?: components["schemas"]["Instance"][];
            /** @description Whether there were more instances than --max-instances (4,096 by default); the rest was not scored. */
            truncated: boolean;
            /** @description Whether there was nothing to score. The reward is then --empty-reward. */
            empty: boolean;
            /** @description The token-level rewards, one for each token. */
            token_rewards?: number[];
            /** @description The tokens, if options.tokenizer is set. */
            token_offsets?: components["schemas"]["TokenOffset"][];
        };
        Witness: {
            /** @description The index of the instance. */
            index: number;
            /** @description The index of the message that start and end refer to; only with messages. */
            message?: number;
            /** @description The start of the span in the response, the message or the given instance, in offset_unit. */
            start: number;
            /** @description The exclusive end of the span. */
            end: number;
            /** @description The text of the span. */
            text: string;
            /** @description The violation g_-1(x) of the instance. */
            violation: number;
        };
        Instance: {
            /** @description The index of the message that start and end refer to; only with messages. */
            message?: number;
            /** @description The index of the message that start and end refer to; only with messages. */
            start: number;
            /** @description The index of the message that start and end refer to; only with messages. */
            end: number;
            /** @description The violation g_-1(x): the probability that the utterance is a violation. */
            violation: number;
        };
        ModelList: {
            /** @constant */
            object: "list";
            data: components["schemas"]["Model"][];
        };
        Model: {
            /** @description The version of the model. */
            id: string;
            /** @constant */
            object: "model";
            /** @description The time of creation in seconds since 1970; 0 if unknown. */
            created: number;
            /** @constant */
            owned_by: "assay";
            name: string;
            version: string;
            /** @description The adjusted decision threshold T of the aggregate max. */
            threshold: number;
            /**
             * @description The class names in the order of the checkpoint.
             * @example [
             *       "violation",
             *       "compliant"
             *     ]
             */
            labels: string[];
            /** @description Whether this replica has loaded the model. */
            serving: boolean;
            /** @description Whether this is the version that every replica must serve. It scores requests that pin no model. */
            current: boolean;
            /**
             * @description The state of the version. initial: the service was started with it. promoted: it passed the gate or was promoted manually. rejected: it failed the gate. retired: it was promoted once, and its files are deleted.
             * @enum {string}
             */
            state?: "initial" | "promoted" | "rejected" | "retired";
            /** @description The version that it was initialized from. */
            parent?: string;
            /** @description The training method. */
            method?: string;
            /** @description Who promoted or rejected the version: gate, or the name of a token. */
            by?: string;
            /** @description The reason of the decision in one sentence. */
            reason?: string;
        };
        /** @description A model with its complete record. */
        ModelRecord: {
            data?: components["schemas"]["TrainingData"];
            /** @description The report of the gate: its metrics and the reason of the decision. */
            gate?: Record<string, never>;
            /** @description The stored files by name. */
            files?: {
                [key: string]: {
                    /** @description The size in bytes. */
                    size: number;
                    /** @description The SHA-256 in hexadecimal. */
                    sha256: string;
                };
            };
        } & components["schemas"]["Model"];
        /** @description The data that a model was trained and evaluated on. */
        TrainingData: {
            /** @description The id of the training run. */
            training: string;
            trigger: components["schemas"]["Trigger"];
            /** @description The trigger of the training run. */
            reason: string;
            /** @description The last sequence of the feedback stream that the run read. */
            through: number;
            /** @description The number of responses in the training data. */
            bags: number;
            /** @description The number of violations among these responses. */
            violations: number;
            /** @description The number of these responses that were labeled or relabeled since the previous run. */
            new: number;
            /** @description The number of responses that the gate used. */
            held_out: number;
            /** @description The number of responses that are omitted because their raters disagree. */
            disputed: number;
            raters: number;
            /** @description A digest of the ids and labels in the training data. */
            digest: string;
            settings?: {
                [key: string]: unknown;
            };
            /** @description The time of training and gate in seconds. */
            seconds: number;
        };
        /**
         * @description The trigger of a training run: enough new labels of both kinds, a drift of the scores since the promotion, labels that contradict the model, the schedule, or a manual request.
         * @enum {string}
         */
        Trigger: "" | "bags" | "drift" | "disagreement" | "schedule" | "manual";
        Current: {
            /** @description The version that every replica must serve. */
            version: string;
            /** Format: date-time */
            since: string;
            /** @description Who promoted the version. */
            by: string;
            /** @description The reason of the promotion. */
            reason: string;
            /** @description The previous versions for a rollback, the most recent one last. */
            previous?: string[];
        };
        Reason: {
            /** @description The reason in one sentence, for the record. */
            reason?: string;
        };
        TrainingAsk: {
            /** @description The reason in one sentence, for the record. */
            reason?: string;
            /**
             * @description Evaluates the candidate with the current labels of the held-out responses instead of those at the last promotion. Use it after a change of the labeling policy.
             * @default false
             */
            refreeze?: boolean;
        };
        FeedbackBatch: {
            /** @description The name of the batch in the log. */
            batch_id?: string;
            /** @description The items. Each one is accepted or rejected on its own. */
            items: components["schemas"]["FeedbackItem"][];
        };
        /** @description The label of one rater for one whole response. It has an id and exactly one of response, messages and instances, or only the response_id of a response that this service scored. */
        FeedbackItem: {
            /** @description The id of the response. The default is response_id. */
            id?: string;
            /** @description The id in the result of the response. */
            response_id?: string;
            /** @enum {string} */
            label: "compliant" | "violation";
            prompt?: string;
            response?: string;
            messages?: components["schemas"]["Message"][];
            instances?: string[];
            /** @description The rater, as the client names it; it is not verified against the token. The majority of the raters decides. */
            rater?: string;
            /**
             * Format: date-time
             * @description The time of the label. A label of the same rater with a later time is a correction.
             */
            time?: string;
        };
        Receipt: {
            /** @description The number of stored items, including corrections. */
            accepted: number;
            /** @description The number of items that are already stored, or older than the stored ones. */
            duplicates: number;
            rejected: {
                /** @description The index of the item in the request. */
                index: number;
                /** @description The id of the item; empty if it has none. */
                id: string;
                /**
                 * @description The reason of the rejection. invalid: a field is missing or wrong. unknown: no response is stored under its response_id. id_conflict: another text has the same id. erased: its id was erased. too_large: the item exceeds the maximum size of the store. no_text: the text has no utterance to train on.
                 * @enum {string}
                 */
                code: "invalid" | "unknown" | "id_conflict" | "erased" | "too_large" | "no_text";
                /** @description What is wrong, and how to fix it. */
                message: string;
            }[];
        };
        /** @description The counts of responses with a label by the majority of their raters. Only callers with the scope admin see how many are held out: with the scope feedback, bags and violations count all of them, and held_out, held_out_violations and new are 0. Otherwise the counts would reveal to the senders of labels which labels evaluate the next model. */
        FeedbackStats: {
            /** @description The number of responses to train on, which are neither held out nor disputed. */
            bags: number;
            /** @description The number of violations among these responses. */
            violations: number;
            /** @description The number of responses that are held out for the gate and never trained on. */
            held_out: number;
            /** @description The number of violations among the held-out responses. */
            held_out_violations: number;
            /** @description The number of responses that are omitted because their raters disagree. */
            disputed: number;
            raters: number;
            /** @description The number of stored labels, one per response and rater. */
            records: number;
            /** @description The part of bags that was labeled or relabeled since the last run whose candidate was promoted or rejected. */
            new: {
                bags: number;
                violations: number;
            };
        };
        Candidates: {
            candidates: components["schemas"]["Candidate"][];
        };
        /** @description A response to label next, and why. Its text is in one of response, messages and instances. */
        Candidate: {
            /** @description The response_id for its label. */
            id: string;
            prompt?: string;
            response?: string;
            messages?: components["schemas"]["Message"][];
            instances?: string[];
            /** @description The version that scored the response. */
            model: string;
            violation: number;
            threshold: number;
            /** @description The score that determines the order. */
            score: number;
            /** @description The uncertainty: 1 at the threshold, and lower with the distance from it. */
            uncertainty: number;
            /** @description The difference between the scores of two versions; absent if only one version scored the response. */
            disagreement?: number;
            /** @description The similarity to the most similar candidate before it. */
            similarity: number;
        };
        Erased: {
            id: string;
            /** @description The number of deleted records. */
            records: number;
        };
        /** @description The state of the training run of the fleet. */
        TrainingStatus: {
            /** @enum {string} */
            phase: "idle" | "collecting" | "training" | "gating" | "publishing";
            id?: string;
            /** @description The replica that runs the training. */
            owner?: string;
            trigger?: components["schemas"]["Trigger"];
            /** @description The trigger of the training run. */
            reason?: string;
            /** @description Who requested the training run. */
            by?: string;
            /** Format: date-time */
            started?: string;
            /** Format: date-time */
            updated?: string;
            /** @description The current version at the start of the run. */
            base?: string;
            /** @description The last sequence of the feedback stream that the run reads. */
            through?: number;
            bags?: number;
            held_out?: number;
            /** @description The attempt: 1 for the first one, more after a service that ran it failed. */
            attempt?: number;
            /** @description How often the child process was killed. */
            interrupted?: number;
            /** @description The value in the request. */
            refreeze?: boolean;
            progress?: {
                epoch: number;
                epochs: number;
                stage: string;
                /** @description The number of completed steps of all epochs. */
                step: number;
                steps: number;
                loss: number;
                /** @description The estimated remaining time in seconds, without the gate. */
                seconds_left: number;
            };
            /** @description The outcome of the previous training run. */
            last?: {
                id: string;
                /** @enum {string} */
                result: "promoted" | "rejected" | "failed";
                /** @description The version of the candidate. */
                version?: string;
                reason: string;
                /** Format: date-time */
                finished: string;
                /** @description The last sequence of the feedback stream that the run read. */
                through: number;
                /** @description The number of consecutive failed training runs. */
                failures?: number;
            };
            /** @description A requested training run that has not started yet. */
            asked?: {
                by: string;
                reason?: string;
                /** Format: date-time */
                time: string;
                refreeze?: boolean;
            };
        };
        Training: {
            /** @description Whether training runs start automatically. */
            auto: boolean;
            /** @description Why no training run starts now, with counts for the scope admin. It is empty if one starts. */
            wait: string;
            /**
             * Format: date-time
             * @description The time when that changes without new labels or requests.
             */
            next?: string;
            feedback: components["schemas"]["FeedbackStats"];
            /** @description The drift of the recent scores of the current version from its reference scores, by the two-sample Kolmogorov-Smirnov test. */
            drift: {
                /** @description The number of reference scores; 0 while they are collected. */
                reference: number;
                /** @description The number of recent scores. */
                recent: number;
                /** @description The maximum difference of the distribution functions. */
                distance: number;
                /** @description The probability of such a distance without a drift. */
                p_value: number;
            };
            /** @description The new labels compared with the decisions of the current version on the same responses. */
            disagreement: {
                labels: number;
                /** @description The number of labels that contradict the decision. */
                against: number;
            };
        } & components["schemas"]["TrainingStatus"];
        Event: {
            /** @description The sequence in the stream, for ?after= and Last-Event-ID. */
            sequence: number;
            /** @description The kind of event: model.trained, model.promoted, model.rejected, model.rolledback, model.load_failed, training.started, training.progress, training.resumed, training.failed, feedback.erased, feedback.disputed. Later versions may add kinds. */
            kind: string;
            /** Format: date-time */
            time: string;
            replica?: string;
            /** @description The version of the model. */
            version?: string;
            /** @description The id of the training run. */
            training?: string;
            by?: string;
            /** @description What happened and why, in one sentence. */
            reason: string;
            /** @description Metrics of the event. */
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
         * @description The state of each dependency by name: ok, or why it is not ready.
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
             * @description The machine-readable code.
             * @enum {string}
             */
            code: "invalid" | "unauthorized" | "insufficient_scope" | "not_enabled" | "no_previous" | "no_files" | "damaged" | "changed" | "exists" | "store_full" | "unavailable" | "forbidden_origin" | "not_found" | "method_not_allowed" | "too_large" | "unsupported_media_type" | "unprocessable" | "client_gone" | "internal" | "model_failed" | "overloaded" | "not_ready" | "shutting_down" | "deadline_exceeded";
            /** @description What is wrong and how to fix it, for people. */
            message: string;
            /** @description The path of the invalid value, such as responses[3].instances[0], or the name of a header. */
            field?: string;
            /** @description The id of the request, as in the header X-Request-Id and in the log. */
            request_id: string;
        };
        /** @description A text or a list of texts. */
        OneOrManyTexts: string | string[];
        /** @description The content of a chat message. Only text can be scored. */
        ChatContent: (string | null) | components["schemas"]["TextPart"][];
        TextPart: {
            /** @enum {unknown} */
            type: "text" | "input_text";
            text: string;
        };
        OpenRLHFRequest: {
            /** @description The prompt and response of each sample, with template and special tokens. The response to an empty list has empty lists. */
            query: string | string[];
            /** @description The prompt of each query, to locate the response after it. */
            prompts?: (string | null)[] | null;
        };
        OpenRLHFAnswer: {
            /** @description The rewards (compliance), one for each query. */
            rewards: number[];
            /** @description The same values for dynamic filtering. */
            scores: number[];
            /** @description Numeric lists: violation, threshold, compliant, empty, truncated, instances, response_length (code points), witness_index, witness_start, witness_end (-1 for an empty response). */
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
             * @description What the offsets of witnesses index: the response, never the query.
             * @constant
             */
            indexes: "response";
            witnesses: (components["schemas"]["Witness"] | null)[];
            /** @description The spans of the response in each query, turn by turn. */
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
            /** @description Any name is accepted; the version of a model that serves pins it. */
            model?: string | null;
            input?: components["schemas"]["OneOrManyTexts"] | null;
            /** @description A conversation instead of input. The messages of the assistant are scored. */
            messages?: ({
                role?: string | null;
                content?: components["schemas"]["ChatContent"];
            } | null)[] | null;
            /** @description The input of SGLang's clients. It must not be combined with input or messages. */
            text?: components["schemas"]["OneOrManyTexts"] | null;
        };
        /** @description The probabilities of violation and compliant: [1-reward, reward]. */
        ClassProbabilities: number[];
        /** @description The usage is always 0, since tokens are not counted here. */
        Usage: {
            prompt_tokens: number;
            total_tokens: number;
        };
        SGLangOutcome: {
            /** @description The reward, as the only element. */
            embedding: number[];
            meta_info: {
                id?: string;
                prompt_tokens?: number;
            };
        };
        /** @description The response of vLLM, or an object or list as SGLang returns for text. */
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
        /** @description The request has one of text_1, data_1 and queries, and one of text_2, data_2, documents and items. */
        PairsRequest: {
            model?: string | null;
            /** @description The prompt for all responses, or one prompt for each. */
            text_1?: (string | null) | string[];
            /** @description The prompt for all responses, or one prompt for each. */
            data_1?: (string | null) | string[];
            /** @description The prompt for all responses, or one prompt for each. */
            queries?: (string | null) | string[];
            /** @description The responses to score. */
            text_2?: (string | null) | string[];
            /** @description The responses to score. */
            data_2?: (string | null) | string[];
            /** @description The responses to score. */
            documents?: (string | null) | string[];
            /** @description The responses to score. */
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
            /** @description A text, a list of texts, or the parts of one multimodal input. */
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
            /** @description A text, a pair of prompt and response, or a batch: a list of lists of one text or a pair. */
            inputs: string | string[] | string[][];
            /** @description Whether to return log-odds instead of probabilities. */
            raw_scores?: boolean | null;
            /** @description This field is ignored: long texts are scored in windows. */
            truncate?: unknown;
            /** @description This field is ignored. */
            truncation_direction?: unknown;
            /** @description The parameters of huggingface_hub's InferenceClient. With them, the response is a list of lists. */
            parameters?: {
                /**
                 * @description The activation; none returns log-odds.
                 * @enum {unknown}
                 */
                function_to_apply?: "sigmoid" | "softmax" | "none" | null;
                top_k?: number | null;
            } | null;
        };
        /** @description The class with the larger score comes first. */
        Prediction: {
            score: number;
            /** @enum {unknown} */
            label: "violation" | "compliant";
        }[];
        /** @description A list for a text or a pair; a list of lists for a batch or with parameters. */
        PredictAnswer: components["schemas"]["Prediction"] | components["schemas"]["Prediction"][];
        TEIInfo: {
            model_id: string;
            /** @description The version of the serving model. */
            model_sha: string;
            model_type: Record<string, never>;
            max_client_batch_size: number;
        } & {
            [key: string]: unknown;
        };
        ContentsRequest: {
            contents: components["schemas"]["OneOrManyTexts"];
            /** @description This field is ignored. */
            detector_params?: unknown;
        };
        /** @description The instances over the threshold for each content. */
        ContentsAnswer: {
            /** @description The start in code points. */
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
            /** @description The name of the input: text, sentences or prompt; any name is accepted for a single input. */
            name: string;
            /** @description The shape; the product of its dimensions is the number of texts. */
            shape: number[];
            /** @constant */
            datatype: "BYTES";
            /** @description The texts, flat or nested according to the shape. */
            data?: unknown[];
            parameters?: {
                /** @description The length of the raw tensor after the JSON in bytes, instead of data. */
                binary_data_size?: number | null;
            } | null;
        };
        InferRequest: {
            id?: string | null;
            /** @description The inputs: text (or sentences), and optionally prompt with one prompt for each text. */
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
        /** @description The request has malformed JSON, a wrong or null type, an unknown option or value, invalid UTF-8, a lone surrogate, too deep nesting, or an invalid header. Code `invalid`. */
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
        /** @description The request needs a token, or its token is unknown. Code `unauthorized`. */
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
        /** @description The state of the models does not allow the operation. Codes `no_previous` (there is no version to roll back to), `no_files` (the version was rejected or retired, and its files are deleted), `damaged` (its files are corrupt), `changed` (another client changed the state concurrently), `exists`. */
        Conflict: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service runs without the streams that the operation needs. Code `not_enabled`. */
        NotEnabled: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The token does not have the scope (code `insufficient_scope`), or the request comes from a web page of an origin that the service does not trust (code `forbidden_origin`). */
        Forbidden: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The path or the model version does not exist, or the model that the request pins is not loaded. Code `not_found`. */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The path does not have this method; Allow lists its methods. Code `method_not_allowed`. */
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
        /** @description The body exceeds --max-body, there are more than --max-responses responses or items, they have more than 524288 instances in total (given instances, messages or segmented utterances), the results exceed 64 MiB (send `instances: false` or fewer responses), or the request needs more memory than --request-memory allows for one request. Code `too_large`. */
        TooLarge: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The Content-Type of the body is not JSON (or application/x-ndjson, where that is supported) in UTF-8, or its Content-Encoding is neither gzip nor zstd. Code `unsupported_media_type`. */
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
        /** @description The client closed the connection before the response. Code `client_gone`; usually only the log shows it. */
        ClientGone: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The model or the service failed; the log has the reason under the request id. Codes `model_failed`, `internal`. */
        Internal: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The queue is full, or too long for the timeout of the request; the feedback store is full or unreachable; a model or a stream is not available yet; or the service shuts down. No label of a batch was stored: retry the whole batch. Codes `overloaded`, `store_full`, `unavailable`, `not_ready`, `shutting_down`. */
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
        /** @description The request exceeded X-Request-Timeout or --request-timeout. Code `deadline_exceeded`. */
        DeadlineExceeded: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description An error in the format of vLLM and OpenAI, with the same status as on the native endpoints. Overload is 503 with Retry-After, never 429. */
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
        /** @description An error in the format of SGLang, with the same status as on the native endpoints. Overload is 503 with Retry-After, never 429. */
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
        /** @description An error in the format of Text Embeddings Inference and with its status. Overload is 503 with Retry-After, never 429. */
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
        /** @description An error in the format of FMS Guardrails, with the same status as on the native endpoints. Overload is 503 with Retry-After, never 429. */
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
        /** @description An error in the format of the Open Inference Protocol, with the same status as on the native endpoints. Overload is 503 with Retry-After, never 429. */
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
         * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
         * @example step-12/sample-3
         */
        RequestId: string;
        /**
         * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
         * @example 30
         */
        RequestTimeout: string;
        /**
         * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
         * @example bulk
         */
        Priority: "interactive" | "bulk" | "";
        /**
         * @description The W3C trace context, which is written to the log.
         * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
         */
        Traceparent: string;
    };
    requestBodies: never;
    headers: {
        /** @description The id of the request, as in the log: that of the client, or a generated one. */
        RequestId: string;
        /** @description The delay before the next attempt in whole seconds, rounded up. */
        RetryAfter: string;
        /** @description The age of the content in seconds. It is set only while NATS is unreachable. */
        Age: string;
        /**
         * @description The challenge, as RFC 6750, section 3, defines.
         * @example Bearer realm="assay", scope="score"
         */
        Challenge: string;
        /**
         * @description The methods of the path.
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description The body has at most --max-body bytes after decompression (32 MiB by default), and must arrive at 128 KiB/s or more on average after the first 10 s. Content-Encoding gzip and zstd are supported (window up to 8 MiB; later frames may use the window of the first one, or 1 MiB). The ids of responses and the names of models and tokenizers have at most 512 bytes. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScoreRequest"];
            };
        };
        responses: {
            /** @description The results, one for each response, in order. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The list of models. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description The version, as in data[].id of the list, or a name.
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description The version, as in data[].id of the list.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        /** @description The reason for the record. The body is optional. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description The version is current. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description The reason for the record. The body is optional. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            /** @description The version is current again. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts of labels. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description The body has at most --max-body bytes after decompression. With application/x-ndjson, each line is one item. The same values of Content-Encoding are supported as for scoring. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["FeedbackBatch"];
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description The receipt, which counts the items and lists the rejected ones. */
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
                /** @description The number of candidates. */
                n?: number;
            };
            header?: {
                /**
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The candidates, at most n. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path: {
                /**
                 * @description The id of the response, escaped as one path segment.
                 * @example r1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response is erased. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The training status. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description The reason for the record. The body is optional. */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TrainingAsk"];
            };
        };
        responses: {
            /** @description The training run is requested. */
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
                /** @description Returns only events after this sequence. */
                after?: number;
                /** @description The stream begins with the last n events; with 0, it has only new events. Without this parameter and without a sequence, it begins with the oldest event in memory. For JSON, this is the length of the list, at least 1 and 100 by default. */
                n?: number;
            };
            header?: {
                /** @description The id of the last event that the client received: the stream resumes after it. It takes precedence over the query. */
                "Last-Event-ID"?: string;
                /**
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, as a stream or as a list. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The response has a value for each query. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The reward (compliance) of the sample. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The result of the sample. Its offsets index the response. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The class probabilities of each input. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The rewards, one for each pair. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The class probabilities of each input. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The results, one for each input. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The class probabilities of each input. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The time to tokenize and to run the model, in milliseconds. */
                    "X-Compute-Time"?: string;
                    /** @description The total time in milliseconds. */
                    "X-Total-Time"?: string;
                    /** @description The time to segment and tokenize, in milliseconds. */
                    "X-Tokenization-Time"?: string;
                    /** @description The time in the queue, in milliseconds. */
                    "X-Queue-Time"?: string;
                    /** @description The time to run the model, in milliseconds. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The serving model. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The service can score. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The service can score. */
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
                 * @description Any value is accepted: there is only one detector, assay.
                 * @example assay
                 */
                "detector-id"?: string;
                /**
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
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
            /** @description The detections, one list for each content. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The name, version and extensions of the server. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is alive. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The service can score. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration of the model. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The model can score. */
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
                /** @description The length of the JSON in the body, in bytes; raw tensors follow. */
                "Inference-Header-Content-Length"?: string;
                /**
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
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
            /** @description The response has a tensor for each output. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The length of the JSON in the body, in bytes; raw tensors follow. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that scores.
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that scores.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration of the model. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that scores.
                 * @example 2026.1
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The version can score. */
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
                /** @description The length of the JSON in the body, in bytes; raw tensors follow. */
                "Inference-Header-Content-Length"?: string;
                /**
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The priority of the request. Interactive requests are scheduled before bulk requests, which use the remaining capacity and are never starved. By default, POST /v1/score is interactive with one response and bulk with more, and the endpoints of other projects are interactive.
                 * @example bulk
                 */
                "X-Priority"?: components["parameters"]["Priority"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
                /**
                 * @description The version that scores.
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
            /** @description The response has a tensor for each output. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The length of the JSON in the body, in bytes; raw tensors follow. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        /** @description The body is ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description The models that serve. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        /** @description The body is ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description The model is ready. */
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
                 * @description Identifies the request in the response and in the log. It has up to 128 letters, digits and -_.:/+=@; any other value is replaced by a generated id.
                 * @example step-12/sample-3
                 */
                "X-Request-Id"?: components["parameters"]["RequestId"];
                /**
                 * @description The timeout of the request, in seconds or as a duration such as 1m30s, above 0. The request fails with 504 after it. The maximum and the default is the timeout of the service (--request-timeout).
                 * @example 30
                 */
                "X-Request-Timeout"?: components["parameters"]["RequestTimeout"];
                /**
                 * @description The W3C trace context, which is written to the log.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /**
                 * @description Any name is accepted; the name of a version that serves pins it.
                 * @example assay
                 */
                model: string;
            };
            cookie?: never;
        };
        /** @description The body is ignored. */
        requestBody?: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description The model is not in memory. */
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
            /** @description The process is alive. */
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
                /** @description With 1, the response is 503 while the streams are unavailable, including after the start. */
                streams?: "1" | "0" | "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The service is ready. */
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
            /** @description The service is not ready; checks lists the reasons. */
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
            /** @description This document, in OpenAPI 3.1. */
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
            /** @description The list of endpoints. */
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
