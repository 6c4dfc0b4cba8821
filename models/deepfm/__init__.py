"""DeepFM (Guo et al., IJCAI 2017) as a re-ranker of what recall proposes; the network is deepctr-torch's."""
